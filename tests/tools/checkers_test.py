#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The checkers of docs and words find what they are for, and leave sound text alone."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import check_budgets  # noqa: E402
import check_docs  # noqa: E402
import check_words  # noqa: E402
import draw_passages  # noqa: E402

SOUND = "# A page\n\nIt is short. It has words. They are plain. Each has its place. Nobody asks twice.\n"


def faults_of(text):
    return list(check_words.page("docs/x.md", text).verdict("docs/x.md"))


class Words(unittest.TestCase):
    def test_sound_text_has_no_fault(self):
        self.assertEqual(faults_of(SOUND), [])

    def test_joined_sentences_are_counted(self):
        joined = "It is short: it has few words. It is plain; that is all of it.\nTwo three four. Five six seven. Eight nine ten.\n"
        self.assertIn("a colon or semicolon joins 40%", faults_of(joined)[0])

    def test_long_sentences_are_counted(self):
        self.assertIn("the median sentence has 20 words", faults_of(("Word " + "word " * 18 + "end.\n\n") * 5)[0])

    def test_wide_lines_and_banned_words_are_named_with_their_line(self):
        self.assertEqual(faults_of(SOUND + "x" * 101 + "\n"), ["docs/x.md:4: 101 columns, want at most 100"])
        self.assertEqual(faults_of(SOUND + "It begins anew.\n"), ["docs/x.md:4: 'anew', want 'again'"])

    def test_code_and_lists_of_errors_join_nothing(self):
        header = "/// Reads it.\n///\n///     a = b; c = d; e = f;\n///\n/// Throws: Error(kIo) if it is not there; Error(kData) if it is torn.\n"
        self.assertFalse([each for each, _ in check_words.sentences(check_words.comments(header)) if check_words.is_joined(each)])

    def test_a_comment_that_opens_with_what_is_found(self):
        found = list(check_words.what_openers("a.cc", "int a;\n// What a is.\n// First line.\n// What goes on.\n"))
        self.assertEqual(found, ["a.cc:2: a comment opens with 'What': // What a is."])

    def test_a_comment_that_opens_without_a_name_is_found(self):
        source = "int a;\n/// It adds up.\n///\n/// Throws: Error(kIo).\n// The sum. It wraps.\n// It is on a second line.\n"
        self.assertEqual(list(check_words.nameless_openers("a.cc", source)),
                         ["a.cc:2: a comment opens with 'It', want the name of the thing: It adds up."])
        self.assertEqual(len(list(check_words.nameless_openers("a.cc", "/// A sum.\n///\n/// Its parts are whole.\n"))), 1)

    def test_output_quoted_in_a_page_is_no_prose(self):
        text = "A table:\n\n    nodes  ranks\n        1      4\n\nMore.\n\n- An item\n    - a nested one\n"
        self.assertEqual(check_words.prose(text), ["A table:", "More.", "An item", "a nested one"])

    def test_a_folder_of_sources_needs_a_readme(self):
        names = ["lockstep/x/a.cc", "lockstep/x/a.h", "lockstep/x/b.cc"]
        self.assertEqual(list(check_words.folders_without_readme(names)), ["lockstep/x: has no README.md"])
        self.assertEqual(list(check_words.folders_without_readme([*names, "lockstep/x/README.md"])), [])


class Licence(unittest.TestCase):
    def test_the_licence_line_stands_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / "a.cc"
            for head, is_sound in (("// SPDX-License-Identifier: Apache-2.0", True), ("#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0", True),
                                   ("<!-- SPDX-License-Identifier: Apache-2.0 -->", True), ("// SPDX-License-Identifier: Apache-2.0 A sum.", False),
                                   ("// A sum.", False)):
                source.write_text(head + "\nint a;\n")
                with self.subTest(head=head):
                    self.assertEqual(list(check_budgets.faults(source, "a.cc", {})) == [], is_sound)


class Passages(unittest.TestCase):
    def test_a_passage_is_whole_and_has_no_code(self):
        header = ("/// Reads a file.\n///\n///     auto text = read(path);\n///\n/// Throws: Error(kIo) if the file\n"
                  "///         cannot be read.\nint a;\n")
        self.assertEqual(list(draw_passages.comment_runs("a.h", header)),
                         ["Reads a file.", "Throws: Error(kIo) if the file cannot be read."])


class Docs(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.root / "docs/guide").mkdir(parents=True)
        (self.root / "docs/guide/a.md").write_text("# A page\n\n## As many as `there are`\n")

    def faults(self, name, text):
        return list(check_docs.faults(self.root, name, text))

    def test_links_to_files_and_headings_are_followed(self):
        good = "[a](guide/a.md) [b](guide/a.md#as-many-as-there-are) [c](#own)\n\n# Own\n"
        (self.root / "docs/README.md").write_text(good)
        self.assertEqual(self.faults("docs/README.md", good), [])
        self.assertEqual(self.faults("docs/x.md", "[a](guide/b.md)"), ["docs/x.md: links to 'guide/b.md', which is not there"])
        self.assertEqual(self.faults("docs/x.md", "[a](guide/a.md#none)"), ["docs/x.md: links to 'guide/a.md#none', a heading that is not there"])

    def test_the_index_has_every_page(self):
        self.assertEqual(self.faults("docs/README.md", "# Index\n"), ["docs/README.md: leaves out guide/a.md"])

    def test_a_path_of_ones_machine_is_found(self):
        self.assertEqual(len(self.faults("docs/x.md", "see /ho" "me/me/x\n")), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
