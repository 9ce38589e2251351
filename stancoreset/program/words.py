"""What a program is about, in words: its observations, and what their likelihood sees."""

from __future__ import annotations

from stancoreset.program.adopt import Adopted
from stancoreset.program.session import Session
from stancoreset.stan import not_lifted


def describe_observation(adopted: Adopted) -> str:
    """Say what one observation is, and which data it has."""
    program = adopted.weighted
    own = ", ".join(program.given_rows)
    about = f"An observation is {program.observation}"
    about += f", with its own {own}." if own else "."
    carried = ", ".join(program.carried({d.name for d in adopted.original.tree.known}))
    found = f" What it carries along is found once from the full data: {carried}."
    return about + (found if carried else "")


def describe_seen(session: Session) -> str:
    """List ψ, the functions of the parameters that enter the likelihood, and what does not."""
    lines = [f"The likelihood depends on the parameters through: {session.controlled.said}."]
    for names, what in (
        (session.behind - session.infinite, "Much larger than the parameters"),
        (session.infinite, "Not finite with these data"),
    ):
        if names:
            lines.append(f"{what}, and no coordinates: {', '.join(sorted(names))}.")
    lines += [
        f"The factors of {product} are coordinates, not the product, because {why}."
        for product, why in not_lifted(session.program, session.behind).items()
    ]
    return "\n".join(lines)
