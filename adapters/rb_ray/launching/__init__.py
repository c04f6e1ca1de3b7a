"""The launcher `ray`: the core's engine on the nodes of a Ray cluster."""
