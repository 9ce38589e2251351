// data: {"N": 7, "K": 3}
functions {
  real dm_lpmf(array[,] int X, vector e) {
    array[2] int D = dims(X);
    real s = sum(e);
    real out = 0;
    for (i in 1:D[1]) { for (j in 1:D[2]) out += lgamma(X[i, j] + e[j]) - lgamma(e[j]); out += lgamma(s) - lgamma(sum(X[i]) + s); }
    return out;
  }
}
data { int N; int K; array[N, K] int<lower=0> X; }
parameters { vector<lower=0>[K] e; }
model { e ~ gamma(2, 1); X ~ dm(e); }
