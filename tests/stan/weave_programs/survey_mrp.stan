// data: {"N": 14, "ns": 3, "ne": 2, "ntr": "rng.integers(3, 9, N)", "y": "rng.integers(0, 3, N)"}
data { int N; int ns; int ne; array[N] int<lower=1, upper=ns> state; array[N] int<lower=1, upper=ne> eth; array[N] int<lower=1, upper=2> sex; array[N] int ntr; array[N] int y; vector[ns] rep_vote; }
parameters { real a; vector[ns] z_s; vector[ne] a_e; real<lower=0> ss; real b_sex; real b_vote; }
transformed parameters { vector[ns] a_s = z_s * ss + b_vote * rep_vote; }
model {
  vector[N] p = inv_logit(a + a_s[state] + a_e[eth] + b_sex * (to_vector(sex) - 1.5));
  y ~ binomial(ntr, p); z_s ~ normal(0, 1); a_e ~ normal(0, 0.5); ss ~ exponential(1); [a, b_sex, b_vote] ~ normal(0, 1);
}
