// data: {"N": 10, "I": 3, "L": [4, 3, 3]}
// Each row of a segment moves the position.
data { int N; int I; array[I] int L; array[N] int<lower=0,upper=1> y; vector[N] x; }
parameters { real a; real b; vector<lower=0,upper=1>[2] p; }
model {
  int n = 0;
  for (i in 1:I) {
    vector[2] f = [0.5, 0.5]';
    for (t in 1:L[i]) {
      n += 1;
      f[1] = f[1] * (y[n] ? p[1] : 1 - p[1]);
      f[2] = f[2] * exp(bernoulli_logit_lpmf(y[n] | a + b * x[n]));
    }
    target += log(sum(f));
  }
}
