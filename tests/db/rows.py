"""Rows for tests of this room."""

from dataclasses import dataclass, field

from sqlmodel import Session

from db.engine import Database
from db.tables import Prompt, PromptSet, Review, Run, Sample, SampleFlag, SampleTag, Tag, User


@dataclass
class World:
    """A run (and another beside it) with people and tags, ready for samples."""

    database: Database
    run_id: int = 0
    other_run_id: int = 0
    prompt_id: int = 0
    users: dict[str, int] = field(default_factory=dict)
    tags: dict[str, int] = field(default_factory=dict)
    made: int = 0
    beside: list[SampleTag | Review | SampleFlag] = field(default_factory=list)

    def sample(self, s: Session, *, run_id: int | None = None, **values: object) -> Sample:
        self.made += 1
        values.setdefault("source_id", f"s{self.made}")
        sample = Sample(run_id=run_id or self.run_id, prompt_id=self.prompt_id, repeat=self.made, **values)
        s.add(sample)
        if sample.id is None:
            s.flush()
        return sample

    def tag(self, sample: Sample, tag: str, user: str, attempt: int | None = None) -> None:
        number = sample.attempt if attempt is None else attempt
        self.beside.append(
            SampleTag(
                sample_id=sample.id,
                attempt=number,
                tag_id=self.tags[tag],
                user_id=self.users[user],
                run_id=sample.run_id,
            )
        )

    def review(
        self, sample: Sample, user: str, verdict: str | None, note: str = "", attempt: int | None = None
    ) -> None:
        number = sample.attempt if attempt is None else attempt
        self.beside.append(
            Review(
                sample_id=sample.id,
                attempt=number,
                user_id=self.users[user],
                run_id=sample.run_id,
                verdict=verdict,
                note=note,
            )
        )

    def flag(self, sample: Sample, code: str, severity: str = "error") -> None:
        self.beside.append(SampleFlag(run_id=sample.run_id, sample_id=sample.id, code=code, severity=severity))

    def settle(self, s: Session) -> None:
        """Write what hangs on samples, after the samples themselves."""
        s.flush()
        s.add_all(self.beside)
        s.flush()
        self.beside.clear()


USERS = ("ann", "bo", 'O\'Brien, "Q" %_')
TAGS = ("wrong", "too long", "50%_off,\\'x'")


def build_world(database: Database) -> World:
    world = World(database)
    with database.write() as s:
        users = {name: User(name=name, role="reviewer") for name in USERS}
        tags = {name: Tag(name=name) for name in TAGS}
        prompt_set = PromptSet(name="set")
        s.add_all([*users.values(), *tags.values(), prompt_set])
        s.flush()
        prompt = Prompt(prompt_set_id=prompt_set.id, line=1, source_id="p")
        runs = [Run(name=name, prompt_set_id=prompt_set.id) for name in ("other", "run")]
        s.add_all([prompt, *runs])
        s.flush()
        world.other_run_id, world.run_id = (run.id for run in runs)
        world.prompt_id = prompt.id
        world.users = {name: user.id for name, user in users.items()}
        world.tags = {name: tag.id for name, tag in tags.items()}
    return world
