// Stars of reviews: the cut points have the prior that the shares of stars are Dirichlet.
functions {
  real cuts_of_shares_lpdf(vector cuts, vector concentration) {
    vector[size(cuts)] below = inv_logit(cuts);
    vector[size(cuts) + 1] share = append_row(below, 1) - append_row(0, below);
    return dirichlet_lpdf(share | concentration) + sum(log(below)) + sum(log1m(below));
  }
}
data {
  int<lower=1> N;
  int<lower=2> K;
  array[N] int<lower=1, upper=K> stars;
  vector[N] delay;
  vector[N] premium;
}
parameters {
  real b_delay;
  real b_premium;
  ordered[K - 1] cuts;
}
model {
  b_delay ~ normal(-0.3, 0.5);
  b_premium ~ normal(0, 0.5);
  cuts ~ cuts_of_shares(rep_vector(3, K));
  stars ~ ordered_logistic(b_delay * delay + b_premium * premium, cuts);
}
