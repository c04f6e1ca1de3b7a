from rb_core.testing import DepotContract, FolderDepot


class TestFolderDepot(DepotContract):
    def make(self, tmp_path):
        return FolderDepot(tmp_path / "depot")
