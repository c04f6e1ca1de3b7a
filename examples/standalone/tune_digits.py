"""The digits job of examples/digits, from Python."""

from scipy.stats import loguniform, uniform

from rb_core import Billing, Cloud, ExperimentSpec, InstanceType, Objective
from rb_plugins import Measuring, Session

core = InstanceType(name="core", slots=1, usd_per_hour=0.17)
outcome = Session().tune(
    "examples/digits/train.py:train",
    space={
        "lr": loguniform(1e-3, 0.5),
        "momentum": uniform(0.5, 0.49),
        "nesterov": [True, False],
        "weight_decay": loguniform(1e-6, 1e-2),
    },
    experiment=ExperimentSpec.successive_halving(n=27, r=3, R=54, eta=3),
    cloud=Cloud(instance_types=(core,), max_nodes=2, billing=Billing(minimum_s=0)),
    objective=Objective(deadline_factor=1.15),
    profile=Measuring(budget_s=25),
    metric="accuracy",
)
print(f"{outcome.best.score:.3f} with {outcome.best.config}: {outcome.best.checkpoint}")
print(f"{outcome.state.jct_s:.0f} s of {outcome.problem.objective.deadline_s:.0f} s, {outcome.bill.cost_usd:.4f} usd")
