#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`lockstep data fetch` against a server on loopback that breaks off, redirects, sends other bytes, or is not there."""
import hashlib
import io
import os
import pathlib
import random
import shutil
import sys
import tarfile
import unittest
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "ranks"), str(HERE)]
import data_server  # noqa: E402
import harness  # noqa: E402


def zipped(entries):
    """{name: bytes} as a zip file; a name given as a ZipInfo may be anything."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def tarred(entries):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in entries.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


NOISE = random.Random(1).randbytes(350_000)
PHOTOGRAPHS = {"photographs/train/ants/1.jpg": b"\xff\xd8\xff" + NOISE[:5000], "photographs/train/ants/2.jpg": b"stored",
               "photographs/val/bees/3.jpg": b"x" * 100_000}


@unittest.skipUnless(shutil.which("curl"), "no curl")
class Fetch(harness.RanksTest):
    def setUp(self):
        super().setUp()
        self.files = {"noise.gz": NOISE, "photographs.zip": zipped(PHOTOGRAPHS), "batches.tar.gz": tarred({"batches/a.bin": b"abc"})}
        self.server = self.enterContext(data_server.Server(self.files))
        self.to = self.folder / "data sets"

    def describe(self, names, behaviours, unpacks_to=""):
        """Writes set.toml, whose addresses behave in these ways, one after the other."""
        files = [f'"{name} {len(self.files[name])} {hashlib.sha256(self.files[name]).hexdigest()}"' for name in names]
        bases = [f'"{self.server.address}/{behaviour}/"' for behaviour in behaviours]
        text = f'about = "some files"\nkind = "folder"\nfrom = [{", ".join(bases)}]\nfiles = [{", ".join(files)}]\n'
        path = self.folder / "set.toml"
        path.write_text(text + (f'unpacks_to = "{unpacks_to}"\n' if unpacks_to else ""))
        return path

    def fetch(self, *arguments, code=0, env=None):
        result = self.start("data", "fetch", *arguments, "--to", self.to, env=env).finish()
        self.assertEqual(result.code, code, result.err)
        return result

    def assert_noise_is_whole(self):
        self.assertEqual((self.to / "noise.gz").read_bytes(), NOISE)
        self.assertEqual([path.name for path in self.to.iterdir()], ["noise.gz"])

    def test_a_file_is_fetched_checked_and_left_alone_the_next_time(self):
        described = self.describe(["noise.gz"], ["plain"])
        found = self.fetch(described, "--json").object
        self.assertEqual(found, {"schema": 1, "name": "set", "kind": "folder", "path": str(self.to), "fetched": ["noise.gz"],
                                 "bytes": len(NOISE)})
        self.assert_noise_is_whole()
        self.assertEqual(self.fetch(described, "--json").object["fetched"], [])
        self.assertEqual(len(self.server.requests), 1)

    def test_a_broken_connection_is_taken_up_where_it_ended(self):
        self.fetch(self.describe(["noise.gz"], ["break"]))
        self.assert_noise_is_whole()
        self.assertEqual([asked for _, asked in self.server.requests],
                         [None, "bytes=100000-", "bytes=200000-", "bytes=300000-"])

    def test_what_an_earlier_call_left_is_gone_on_with(self):
        self.to.mkdir()
        (self.to / "noise.gz.part").write_bytes(NOISE[:1000])
        self.fetch(self.describe(["noise.gz"], ["plain"]))
        self.assert_noise_is_whole()
        self.assertEqual(self.server.requests, [("/plain/noise.gz", "bytes=1000-")])

    def test_a_server_without_ranges_is_asked_from_the_start(self):
        self.to.mkdir()
        (self.to / "noise.gz.part").write_bytes(NOISE[:1000])
        self.fetch(self.describe(["noise.gz"], ["whole"]))
        self.assert_noise_is_whole()

    def test_a_damaged_part_is_fetched_anew(self):
        self.to.mkdir()
        for damaged in (b"damaged", bytes(len(NOISE)), bytes(len(NOISE) + 7)):
            (self.to / "noise.gz.part").write_bytes(damaged)
            self.fetch(self.describe(["noise.gz"], ["plain"]))
            self.assert_noise_is_whole()
            (self.to / "noise.gz").unlink()

    def test_a_redirect_is_followed(self):
        self.fetch(self.describe(["noise.gz"], ["redirect"]))
        self.assert_noise_is_whole()

    def test_other_bytes_are_an_error_that_shows_both_sums_and_leave_nothing(self):
        result = self.fetch(self.describe(["noise.gz"], ["other"]), code=5)
        for sum_of in (NOISE, bytes(len(NOISE))):
            self.assertIn(hashlib.sha256(sum_of).hexdigest(), result.err)
        self.assertIn("--from", result.err)
        self.assertEqual(list(self.to.iterdir()), [])

    def test_the_next_address_is_tried(self):
        result = self.fetch(self.describe(["noise.gz"], ["nowhere", "other", "plain"]))
        self.assert_noise_is_whole()
        self.assertIn("404", result.err)
        self.assertIn("trying the next address", result.err)

    def test_a_missing_file_is_an_error_that_names_the_address(self):
        result = self.fetch(self.describe(["noise.gz"], ["nowhere"]), code=6)
        self.assertIn(f"{self.server.address}/nowhere/noise.gz cannot be fetched", result.err)
        self.assertIn("--from URL", result.err)

    def test_without_a_network_the_way_out_is_told(self):
        described = self.describe(["noise.gz"], ["plain"])
        with data_server.Server({}) as gone:
            pass
        for result in (self.fetch(described, "--from", gone.address, code=6),
                       self.fetch(described, code=6, env={"LOCKSTEP_DATA_MIRROR": gone.address})):
            self.assertIn("cannot be fetched", result.err)
            self.assertIn("fetch on a login node", result.err)

    def test_a_folder_is_a_mirror(self):
        mirror = self.folder / "mirror"
        mirror.mkdir()
        (mirror / "noise.gz").write_bytes(NOISE)
        self.fetch(self.describe(["noise.gz"], ["nowhere"]), "--from", mirror)
        self.assert_noise_is_whole()

    def test_another_file_of_that_name_is_never_written_over(self):
        self.to.mkdir()
        (self.to / "noise.gz").write_bytes(b"precious")
        result = self.fetch(self.describe(["noise.gz"], ["plain"]), code=5)
        self.assertIn("is there already", result.err)
        self.assertEqual((self.to / "noise.gz").read_bytes(), b"precious")

    def test_archives_are_unpacked_and_removed(self):
        found = self.fetch(self.describe(["photographs.zip"], ["plain"], "photographs"), "--json").object
        self.assertEqual(found["path"], str(self.to / "photographs"))
        self.assertEqual(harness.contents(self.to), PHOTOGRAPHS)
        self.fetch(self.describe(["photographs.zip"], ["nowhere"], "photographs"))
        self.fetch(self.describe(["batches.tar.gz"], ["plain"], "batches"))
        self.assertEqual((self.to / "batches/a.bin").read_bytes(), b"abc")

    def test_an_archive_that_leaves_its_folder_is_refused_whole(self):
        link = zipfile.ZipInfo("photographs/link")
        link.create_system, link.external_attr = 3, 0o120777 << 16
        for name in ("../escaped", "photographs/../../escaped", "/tmp/lockstep-escaped", link):
            self.files["evil.zip"] = zipped({"photographs/1.jpg": b"1", name: b"/etc"})
            result = self.fetch(self.describe(["evil.zip"], ["plain"], "photographs"), code=5)
            self.assertIn("evil.zip", result.err)
            self.assertEqual(sorted(path.name for path in self.folder.glob("**/*") if path.name in ("escaped", "link", "1.jpg")), [])
            self.assertFalse(os.path.exists("/tmp/lockstep-escaped"))
            (self.to / "evil.zip").unlink()
        self.files["evil.tar.gz"] = tarred({"../escaped": b"1"})
        self.fetch(self.describe(["evil.tar.gz"], ["plain"], "photographs"), code=6)
        self.assertFalse((self.folder / "escaped").exists())

    def test_wget_serves_where_curl_is_missing(self):
        programs = self.folder / "programs"
        programs.mkdir()
        for name in ("wget", "sha256sum"):
            if not shutil.which(name):
                self.skipTest(f"no {name}")
            (programs / name).symlink_to(shutil.which(name))
        self.to.mkdir()
        (self.to / "noise.gz.part").write_bytes(b"old")
        self.fetch(self.describe(["noise.gz"], ["plain"]), env={"PATH": str(programs)})
        self.assert_noise_is_whole()
        (programs / "wget").unlink()
        (self.to / "noise.gz").unlink()
        result = self.fetch(self.describe(["noise.gz"], ["plain"]), code=4, env={"PATH": str(programs)})
        self.assertIn("neither curl nor wget is in PATH", result.err)

    def test_unknown_sets_and_wrong_descriptions_are_named(self):
        self.assertIn("is it 'cifar10'?", self.fetch("cifar11", code=2).err)
        described = self.describe(["noise.gz"], ["plain"])
        text = described.read_text()
        for wrong, wanted in ((text.replace("files", "fils"), "unknown key 'fils'"),
                              (text.replace("noise.gz ", "../noise "), "want 'NAME BYTES SHA256'"),
                              (text.replace("from = [", "from = [1, "), "want a list of texts")):
            described.write_text(wrong)
            self.assertIn(wanted, self.fetch(described, code=3).err)


if __name__ == "__main__":
    unittest.main()
