// data: {"N": 10, "J": 4, "C": 2}
data { int N; int J; int C; array[N, J] int<lower=0, upper=1> y; vector<lower=0>[C] alpha; }
parameters { simplex[C] nu; array[C] vector<lower=0, upper=1>[J] p; }
model {
  array[C] real ps;
  nu ~ dirichlet(alpha);
  for (i in 1:N) {
    for (c in 1:C) {
      array[J] real log_items;
      for (j in 1:J) log_items[j] = y[i, j] * log(p[c, j]) + (1 - y[i, j]) * log1m(p[c, j]);
      ps[c] = log(nu[c]) + sum(log_items);
    }
    target += log_sum_exp(ps);
  }
}
