"""What people say is kept per person and attempt, said whole, and never overwritten unseen."""

import pytest

from db.errors import Conflict, Invalid, NotFound, PreconditionFailed
from db.filters import parse_body
from db.queries.samples import count_samples
from inference.review.reviews import (
    add_comment,
    create_tag,
    list_comments,
    list_reviews,
    list_tags,
    my_review,
    put_review,
    set_tag,
    unset_tag,
)
from inference.review.samples import list_sample_rows
from inference.runs.control import regenerate
from tests.support.fake_sglang import FakeSglang
from tests.support.workshop import Workshop


@pytest.fixture
def run_id(shop: Workshop, fake_sglang: FakeSglang) -> int:
    """A completed run of four samples, and the tags `loop` and `wrong, badly`."""
    run_id = shop.launch(shop.prompts(4), shop.backend(fake_sglang))
    shop.work(run_id)
    with shop.ctx.db.write() as s:
        create_tag(s, "loop", None, None)
        create_tag(s, "wrong, badly", 7, None)
    return run_id


@pytest.fixture
def sample_id(shop: Workshop, run_id: int) -> int:
    return shop.samples(run_id)[0].id


def test_two_people_judge_one_sample_without_touching_each_other(shop: Workshop, sample_id: int, run_id: int) -> None:
    ada, bob = shop.user("ada"), shop.user("bob")
    with shop.ctx.db.write() as s:
        put_review(s, sample_id, ada, "bad", ["loop", "wrong, badly"], "says it twice")
        put_review(s, sample_id, bob, "good", ["loop"], "")
        row = list_sample_rows(s, run_id, parse_body({})).items[0]
    assert [(verdict.by, verdict.verdict) for verdict in row.verdicts] == [("ada", "bad"), ("bob", "good")]
    assert sorted((tag.name, tag.by) for tag in row.tags) == [("loop", "ada"), ("loop", "bob"), ("wrong, badly", "ada")]
    with shop.ctx.db.write() as s:
        put_review(s, sample_id, ada, None, [], "  ")
        left = list_reviews(s, sample_id)
        row = list_sample_rows(s, run_id, parse_body({})).items[0]
    assert [(verdict.by, verdict.verdict) for verdict in left] == [("bob", "good")]
    assert [(tag.name, tag.by) for tag in row.tags] == [("loop", "bob")]


def test_review_is_said_whole_and_its_version_guards_it(shop: Workshop, sample_id: int) -> None:
    ada = shop.user()
    with shop.ctx.db.write() as s:
        first = put_review(s, sample_id, ada, "unsure", ["loop"], "hm", if_match=0)
        second = put_review(s, sample_id, ada, "good", [], "", if_match=first.version)
        assert (second.verdict, second.tags, second.note) == ("good", [], "")
        assert second.version == first.version + 1
    with shop.ctx.db.write() as s, pytest.raises(PreconditionFailed):
        put_review(s, sample_id, ada, "bad", [], "", if_match=first.version)
    with shop.ctx.db.read() as s:
        mine = my_review(s, shop.samples(1)[0], ada)
        assert mine is not None
        assert mine.verdict == "good"


def test_unknown_tag_is_refused_by_name_with_those_there_are(shop: Workshop, sample_id: int) -> None:
    ada = shop.user()
    with shop.ctx.db.write() as s, pytest.raises(Invalid, match=r"'lop'.*loop, wrong, badly") as caught:
        put_review(s, sample_id, ada, "bad", ["loop", "lop"], "")
    assert (caught.value.code, caught.value.field) == ("tag_unknown", "tags")
    with shop.ctx.db.write() as s, pytest.raises(Invalid):
        put_review(s, sample_id, ada, "superb", [], "")
    with shop.ctx.db.read() as s:
        assert list_reviews(s, sample_id) == []
        with pytest.raises(NotFound):
            list_reviews(s, 10**9)


def test_single_tags_go_on_and_off_and_leave_the_rest(shop: Workshop, sample_id: int) -> None:
    ada = shop.user()
    with shop.ctx.db.write() as s:
        put_review(s, sample_id, ada, "bad", ["loop"], "note")
        assert set_tag(s, sample_id, ada, "wrong, badly").tags == ["loop", "wrong, badly"]
        assert set_tag(s, sample_id, ada, "loop").tags == ["loop", "wrong, badly"]
        after = unset_tag(s, sample_id, ada, "loop")
    assert (after.verdict, after.tags, after.note) == ("bad", ["wrong, badly"], "note")


def test_verdict_of_an_old_attempt_counts_no_more(shop: Workshop, sample_id: int, run_id: int) -> None:
    ada = shop.user()
    with shop.ctx.db.write() as s:
        put_review(s, sample_id, ada, "bad", ["loop"], "")
        regenerate(s, shop.ctx, run_id, parse_body({"verdict": ["bad"]}), expected_count=1)
    with shop.ctx.db.write() as s, pytest.raises(Conflict, match="no answer to judge"):
        put_review(s, sample_id, ada, "good", [], "")
    shop.work(run_id)
    with shop.ctx.db.read() as s:
        assert list_reviews(s, sample_id) == []
        assert count_samples(s, run_id, parse_body({"verdict": ["bad"]})) == (0, True)
        assert count_samples(s, run_id, parse_body({"tag": ["loop"]})) == (0, True)


def test_tags_get_the_lowest_free_key_and_keep_it(shop: Workshop, run_id: int) -> None:
    with shop.ctx.db.write() as s:
        assert create_tag(s, "third", None, None).key == 2
        assert [(tag.name, tag.key) for tag in list_tags(s)] == [("loop", 1), ("third", 2), ("wrong, badly", 7)]
    for name, key, code in [("Loop", None, "tag_exists"), ("new", 7, "tag_key_taken")]:
        with shop.ctx.db.write() as s, pytest.raises(Conflict) as caught:
            create_tag(s, name, key, None)
        assert caught.value.code == code
    for name, key in [(" ", None), ("none", None), ("a\nb", None), ("x" * 61, None), ("fine", 11)]:
        with shop.ctx.db.write() as s, pytest.raises(Invalid):
            create_tag(s, name, key, None)


def test_comment_stands_on_a_range_of_the_answer(shop: Workshop, sample_id: int) -> None:
    ada = shop.user()
    with shop.ctx.db.write() as s:
        add_comment(s, sample_id, ada, " here ", 2, 5)
        add_comment(s, sample_id, ada, "all of it")
    with shop.ctx.db.read() as s:
        found = [(comment.by, comment.start, comment.end, comment.body) for comment in list_comments(s, sample_id)]
    assert found == [("ada", 2, 5, "here"), ("ada", None, None, "all of it")]
    for start, end in [(5, 2), (0, 10**6), (None, 3), (2, None), (-1, 2)]:
        with shop.ctx.db.write() as s, pytest.raises(Invalid):
            add_comment(s, sample_id, ada, "x", start, end)
