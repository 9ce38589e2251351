// data: {"N": 16, "J": 5, "S": 2}
data { int N; int J; int S; array[J] int<lower=1, upper=S> state; array[N] int<lower=1, upper=J> county; vector[N] y; vector[J] u; }
parameters { vector[S] a; vector[J] b; real g; real<lower=0> s; }
model { b ~ normal(a[state] + g * u, 1); y ~ normal(b[county] + 0.1 * a[state[county]], s); a ~ normal(0, 1); }
