"""The table at the end of a build."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from enginewright.swarm.sentinel_outcomes import false_promotion_words

ROWS = (
    "decode_tokens_per_s",
    "prefill_tokens_per_s",
    "ttft_ms",
    "texts_per_s",
    "request_ms",
    "peak_memory_mib",
    "start_seconds",
)
"""Metrics that the table shows, where the model has them."""


def print_result(result: dict[str, Any]) -> None:
    """Naive engine, baselines and champion; criteria; trials; where things lie."""
    console = Console()
    print_comparison(result)
    trials = result["trials"]
    console.print(
        f"trials: {trials['kept']} kept, {trials['rejected']} rejected, {trials['void']} void; "
        f"{result['stopped_because']}",
        soft_wrap=True,
    )
    _print_judge(console, result)
    _print_timings(console, result["timings"])
    answer = result["answer"]
    console.print(f"asked   {answer['request']}", markup=False, soft_wrap=True)
    console.print(f"answer  {answer['answer']}", markup=False, soft_wrap=True)
    for name in ("binary", "report"):
        console.print(f"{name:7} {result[name]}", markup=False, soft_wrap=True)


def print_comparison(result: dict[str, Any]) -> None:
    """Naive engine, baselines and champion side by side, and the criteria."""
    console = Console()
    console.print(_engines(result))
    speed = result["speedup"]
    console.print(
        f"champion {result['champion_candidate']}: [bold]{speed['value']:.2f}x[/bold] the naive "
        f"engine ({speed['low']:.2f} to {speed['high']:.2f}); "
        f"{_percent(result['floor_share'])} of this machine's floor",
        soft_wrap=True,
    )
    console.print(
        f"false promotions: {false_promotion_words(result['false_promotion'])}", soft_wrap=True
    )
    if result["acceptance"]:
        console.print(_criteria(result["acceptance"]))
    disturbed = result["confirmation"]["disturbed_blocks"]
    if disturbed:
        blocks = result["confirmation"]["blocks"]
        console.print(
            f"[yellow]others used this machine during {disturbed} of {blocks} blocks: the figures "
            "are noisy[/yellow]"
        )


def _engines(result: dict[str, Any]) -> Table:
    arms = {"naive": result["naive"], **result["baselines"], "champion": result["champion"]}
    table = Table("metric", *arms, "unit", box=None, header_style="bold")
    for name in ROWS:
        if any(name in metrics for metrics in arms.values()):
            unit = next(held[name]["unit"] for held in arms.values() if name in held)
            cells = [_figure(metrics.get(name)) for metrics in arms.values()]
            table.add_row(name, *cells, unit)
    return table


def _criteria(acceptance: list[dict[str, Any]]) -> Table:
    table = Table("criterion", "goal", "found", "", box=None, header_style="bold")
    for item in acceptance:
        against = item.get("against") or "absolute"
        of = "" if against == "absolute" else f" x {against}"
        holds = "[green]holds[/green]" if item["holds"] else "[red]missed[/red]"
        goal = f"{item['comparison']} {item['goal']:g}{of}"
        table.add_row(item["metric"], goal, _figure(item), holds)
    return table


def _print_judge(console: Console, result: dict[str, Any]) -> None:
    """How far the judge itself was put to the test."""
    calibration = result.get("calibration")
    if calibration is not None:
        console.print(
            f"judge: the champion against itself {calibration['low']:.4f} to "
            f"{calibration['high']:.4f} over {len(calibration['log_ratios'])} blocks; effects of "
            f"{100 * calibration['detectable']:.2g} % and more are seen",
            soft_wrap=True,
        )
    _print_shortlist(console, result.get("shortlist"))
    _print_closeness(console, result.get("closeness") or {})
    sentinels = result.get("sentinels", [])
    told = [held for held in sentinels if held["as_expected"] is not None]
    wrong = [held["kind"] for held in told if not held["as_expected"]]
    if told:
        mark = f"[red]{', '.join(wrong)} judged wrongly[/red]" if wrong else "all judged rightly"
        console.print(f"sentinels: {len(told)} of known verdict, {mark}", soft_wrap=True)


def _print_shortlist(console: Console, shortlist: dict[str, Any] | None) -> None:
    """What each accepted step is worth in the end, and how much the search flattered itself."""
    if shortlist is None:
        return
    for arm in shortlist["arms"]:
        ratio = arm["over_champion"]
        if arm["kind"] == "without" and ratio is not None:
            console.print(
                f"without {arm['tactic']}: {ratio['value']:.3f}x the champion "
                f"({ratio['low']:.3f} to {ratio['high']:.3f})",
                soft_wrap=True,
            )
    for gap in shortlist["gaps"]:
        console.print(
            f"{gap['tactic']}: {gap['selected']['value']:.3f}x when it was kept, "
            f"{gap['confirmed']['value']:.3f}x on inputs never seen "
            f"({gap['confirmed']['low']:.3f} to {gap['confirmed']['high']:.3f})",
            soft_wrap=True,
        )


def _print_closeness(console: Console, closeness: dict[str, dict[str, Any]]) -> None:
    if not closeness:
        return
    lengths = ", ".join(
        f"{length}: "
        + (
            f"cosine {held['cosine']:.7f}"
            if held["cosine"] is not None
            else f"{held['kl_nats']:.2g} nats, {held['top1_agreement']:.1%} the same"
        )
        for length, held in closeness.items()
    )
    console.print(f"distance from the naive engine by context: {lengths}", soft_wrap=True)


def _print_timings(console: Console, timings: dict[str, Any]) -> None:
    each = timings["seconds_per_candidate"]
    if each:
        parts = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in each.items())
        console.print(f"seconds a candidate: {parts}")
    share = timings["own_share"]
    if share is not None:
        console.print(
            f"the loop's own time: {share:.1%} of {timings['wall_seconds']:.0f} s wall "
            f"({timings['own_cpu_seconds']:.1f} s of processor)"
        )


def _figure(held: dict[str, Any] | None) -> str:
    if held is None or held.get("value") is None:
        return "-"
    text = f"{held['value']:.4g}"
    if held.get("low") is None or held.get("high") is None:
        return text
    return f"{text} ({held['low']:.4g} to {held['high']:.4g})"


def _percent(held: dict[str, Any]) -> str:
    return "unknown share" if held.get("value") is None else f"{held['value']:.0%}"
