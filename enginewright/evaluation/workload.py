"""What one pass sends: fresh prompts for every scenario, the same for all arms of a block."""

from __future__ import annotations

from dataclasses import dataclass

from enginewright.evaluation.load_records import Request, Wave
from enginewright.evaluation.prompts import PromptSource
from enginewright.target import Scenario, Target

_WARM_UP_PROMPT_TOKENS = 16
_WARM_UP_OUTPUT_TOKENS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Requests of one block."""

    waves: tuple[Wave, ...]
    """A warm-up, then each scenario in order."""
    prompt_ids: dict[int, tuple[tuple[int, ...], ...]]
    """Token ids of each text of each request, by the request's id."""

    @property
    def texts(self) -> dict[int, tuple[str, ...]]:
        """Texts of each request, by the request's id."""
        return {
            request.id: request.texts
            for wave in self.waves
            for stream in wave.streams
            for request in stream
        }


def draw_workload(target: Target, prompts: PromptSource, *, rounds: int = 1) -> Workload:
    """Draw the prompts of one block; each stream sends `rounds` times the scenario's requests.

    Raises: TargetError if the tokenizer makes no text of a scenario's length.
    """
    requests: list[Request] = []

    def draw(prompt_tokens: int, output_tokens: int, batch: int = 1) -> Request:
        texts = tuple(prompts.prompts(prompt_tokens, batch))
        request = Request(id=len(requests), texts=texts, output_tokens=output_tokens)
        requests.append(request)
        return request

    shortest = min(target.workload.scenario, key=lambda scenario: scenario.prompt_tokens)
    warm_up = draw(
        min(_WARM_UP_PROMPT_TOKENS, shortest.prompt_tokens),
        min(_WARM_UP_OUTPUT_TOKENS, shortest.output_tokens),
    )
    waves = [Wave(scenario=shortest.name, phase="warm_up", streams=((warm_up,),))]
    for scenario in target.workload.scenario:
        streams = tuple(
            tuple(
                draw(scenario.prompt_tokens, scenario.output_tokens, scenario.batch)
                for _ in range(rounds * scenario.requests)
            )
            for _ in range(scenario.streams)
        )
        waves.append(Wave(scenario=scenario.name, phase="timed", streams=streams))
    return Workload(
        waves=tuple(waves),
        prompt_ids={
            request.id: tuple(tuple(prompts.ids(text)) for text in request.texts)
            for request in requests
        },
    )


def together_wave(
    target: Target, workload: Workload, prompts: PromptSource, *, most_tokens: int
) -> Wave:
    """Requests that were timed, sent again all at once, with a fresh companion of another length.

    The shortest come first, as many as `most_tokens` positions hold, at least one.
    """
    held: list[tuple[int, Request]] = []
    for wave in workload.waves:
        if wave.phase == "timed":
            scenario = _scenario(target, wave.scenario)
            size = (scenario.prompt_tokens + scenario.output_tokens) * scenario.batch
            held += [(size, request) for stream in wave.streams for request in stream]
    held.sort(key=lambda entry: (entry[0], entry[1].id))
    chosen: list[Request] = []
    total = 0
    for size, request in held:
        if chosen and total + size > most_tokens:
            break
        chosen.append(request)
        total += size
    first = chosen[0]
    companion = Request(
        id=1 + max(workload.prompt_ids),
        texts=(prompts.prompt(max(8, len(workload.prompt_ids[first.id][0]) - 3)),),
        output_tokens=first.output_tokens,
    )
    return Wave(
        scenario="together",
        phase="together",
        streams=((companion,), *((request,) for request in chosen[:_MOST_TOGETHER])),
    )


_MOST_TOGETHER = 6
"""Requests sent at once besides the companion: engines need not hold more sequences."""


def _scenario(target: Target, name: str) -> Scenario:
    return next(scenario for scenario in target.workload.scenario if scenario.name == name)
