// Three parameters of each item: discrimination, difficulty and the chance of a lucky guess.
data {
  int<lower=1> R;
  int<lower=1> I;
  int<lower=1> P;
  array[R] int<lower=1, upper=I> item;
  array[R] int<lower=1, upper=P> person;
  array[R] int<lower=0, upper=1> right;
}
parameters {
  vector[P] theta;
  vector<lower=0>[I] a;
  vector[I] b;
  vector<lower=0, upper=1>[I] guess;
}
model {
  theta ~ normal(0, 1);
  a ~ lognormal(0, 0.3);
  b ~ normal(0, 1);
  guess ~ beta(5, 17);
  for (r in 1:R) {
    int i = item[r];
    real known = inv_logit(a[i] * (theta[person[r]] - b[i]));
    right[r] ~ bernoulli(guess[i] + (1 - guess[i]) * known);
  }
}
