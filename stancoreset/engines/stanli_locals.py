"""Local variables of transformed data with names of their own, for stanli 0.24.

    transformed data { … { int k = 1; … } }        transformed data { … { int k_2 = 1; … } }
    model { for (k in 1:K) target += a[k] * b; }   model { for (k in 1:K) target += a[k] * b; }

stanli keeps the last value of a local variable of transformed data: it takes that value where a
loop of another block has a number of the same name. The log density is then a finite number, and
wrong. The woven program keeps transformed data, so that comparing the two would not tell.
"""

from __future__ import annotations

import re
from dataclasses import replace

from stancoreset.errors import StancoresetError
from stancoreset.stan.syntax import Names, declarations, parse, printer, renamed
from stancoreset.stan.syntax import nodes as n

# Most programs have no such loops, and need not be parsed.
_MAY_HAVE_SOME = re.compile(r"\btransformed\s+data\b.*\bfor\b", re.DOTALL)


def with_locals_apart(code: str) -> str:
    """The program with other names for local variables of transformed data that loops have, too.

    >>> code = "transformed data { int a; { int k = 2; a = k; } } parameters { real b; } "
    >>> code += "model { for (k in 1:3) b ~ normal(a, k); }"
    >>> print(with_locals_apart(code).partition("parameters")[0])
    transformed data {
      int a;
      {
        int k_2 = 2;
        a = k_2;
      }
    }
    <BLANKLINE>
    """
    if not _MAY_HAVE_SOME.search(code):
        return code
    try:
        program = parse(code)
    except StancoresetError:  # which stanli says of the text as it is
        return code
    body = program.transformed_data
    later = (*program.transformed_parameters, *program.model, *program.generated_quantities)
    loops = {s.name for s in n.find_all(later, n.For, n.ForEach)}
    names = Names(program)
    names.used |= {d.name for d in declarations(program.generated_quantities)}
    both = sorted(loops & {d.name for d in declarations(body)})
    if not both:
        return code
    others = {name: names.fresh(name) for name in both}
    return printer.program(replace(program, transformed_data=renamed(body, others)))
