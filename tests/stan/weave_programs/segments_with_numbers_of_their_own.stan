// data: {"N": 9, "J": 3, "s": [4, 3, 2], "first": [1, 5, 8], "last": [4, 7, 9]}
// Numbers that a loop over segments computes for each of them, and rows that read those before.
data {
  int N; int J; array[J] int s; array[J] int first; array[J] int last; vector[J] w; vector[N] x;
  vector[N] y;
}
parameters { vector[J] a; real b; real phi; real<lower=0> sigma; }
model {
  int pos = 1;
  real mu;
  real scale;
  a ~ normal(0, 1);
  for (j in 1:J) {
    real half = 0.5 * sigma;
    mu = a[j] + b * w[j];
    scale = 2 * half;
    segment(y, pos, s[j]) ~ normal(mu, scale);
    pos += s[j];
  }
  pos = 0;
  for (j in 1:J) {
    for (t in 1:s[j]) {
      pos += 1;
      real eta = a[j] + b * x[pos];
      if (t == 1) y[pos] ~ student_t(4, eta, 2);
      else y[pos] ~ student_t(4, a[j] + b * x[pos] + phi * y[pos - 1], 2);
    }
  }
  for (j in 1:J) {
    y[first[j]] ~ cauchy(a[j] + b * x[first[j]], sigma);
    for (n in (first[j] + 1):last[j]) y[n] ~ cauchy(a[j] + phi * (y[n - 1] - b * x[n]), 2);
  }
}
