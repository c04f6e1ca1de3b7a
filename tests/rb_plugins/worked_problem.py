"""The worked example of the model as a problem file: times and costs in it are computed by hand."""

PROBLEM = {
    "experiment": {"stages": [{"trials": 4, "iterations": 10}, {"trials": 2, "iterations": 20},
                              {"trials": 1, "iterations": 40}]},
    "profile": {"iteration_s": {"1": 10, "2": 6, "4": 4}, "start_s": 5, "save_s": 1, "sync_s": 4},
    "cloud": {"instance_types": [{"name": "a", "slots": 2, "usd_per_hour": 3.6}], "launch_s": 30, "init_s": 60,
              "max_nodes": 2},
    "objective": {"deadline_s": 800},
}  # fmt: skip
