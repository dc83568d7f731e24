# SPDX-License-Identifier: Apache-2.0
"""A test whose runs lie in a folder of its own. Import it after `pythons.with_each`."""
import pathlib
import sys
import tempfile
import unittest

import pythons

sys.path.insert(0, str(pythons.ROOT / "python"))
import lockstep  # noqa: E402


class InAFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lockstep python ")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.addCleanup(self.forget)

    @staticmethod
    def forget():
        """As the end of the process would do."""
        run = lockstep._current
        lockstep._current = None
        if run is not None:
            run._saves.saver.wait()
            run._give_up()

    def refused(self, *words, **options):
        with self.assertRaises(lockstep.Error) as caught:
            lockstep.start(folder=self.folder, **options)
        for word in words:
            self.assertIn(word, str(caught.exception))
