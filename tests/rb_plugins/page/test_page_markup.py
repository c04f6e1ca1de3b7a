"""Everything that others wrote is escaped, wherever it stands."""

from page_cases import EVIL, story

from rb_plugins.page.document import page
from rb_plugins.page.markup import Markup, element, text


def test_text_and_attributes_are_escaped_and_markup_is_not():
    assert element("p", "<b>", Markup("<i></i>"), title='"') == '<p title="&quot;">&lt;b&gt;<i></i></p>'
    assert element("rect", x=1.5, class_="a", data_words=None) == '<rect x="1.5" class="a"/>'


def test_what_a_page_has_no_place_for_is_replaced():
    assert text("a\x00b\u202ec") == "a\ufffdb\ufffdc"


def test_a_page_holds_one_script_and_that_is_its_own():
    written = page(story(16, faulty=True, evil=True))
    assert written.count("<script") == 1
    assert text(EVIL) in written
    assert "http://" not in written.replace("http-equiv", "")


def test_equal_stories_give_equal_pages():
    assert page(story(16)) == page(story(16))
