// data: {"N": 20, "I": 4, "J": 3}
functions {
  real pcm(int y, real theta, vector beta) {
    vector[rows(beta) + 1] unsummed = append_row(rep_vector(0.0, 1), theta - beta);
    vector[rows(beta) + 1] probs = softmax(cumulative_sum(unsummed));
    return categorical_lpmf(y + 1 | probs);
  }
}
data { int I; int J; int N; array[N] int<lower=1, upper=I> ii; array[N] int<lower=1, upper=J> jj; array[N] int<lower=0, upper=2> y; }
transformed data { int m = max(y); }
parameters { array[I] vector[m] beta; vector[J] theta; real<lower=0> sigma; }
model {
  for (i in 1:I) beta[i] ~ normal(0, 3);
  theta ~ normal(0, sigma);
  for (n in 1:N) target += pcm(y[n], theta[jj[n]], beta[ii[n]]);
}
