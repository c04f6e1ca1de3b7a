"""The Ray side of rubberband-tune; see SCOPE.md for what stands here today."""
