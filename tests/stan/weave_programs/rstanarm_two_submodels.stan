// data: {"N1": 6, "N2": 5, "K": 2, "bN": 3, "id1": "rng.integers(1, 4, N1)", "id2": "rng.integers(1, 4, N2)", "family": [1, 4]}
// Two outcomes, of rows of their own, by one function: data say which density an outcome has.
functions {
  vector evaluate(matrix X, vector Z, array[] int id, real gamma, vector beta, vector b) {
    int N = rows(X);
    vector[N] eta = X * beta + gamma;
    for (n in 1:N) eta[n] = eta[n] + b[id[n]] * Z[n];
    return eta;
  }
  void glm_lp(vector y, array[] int whole, vector eta, real aux, int family) {
    if (family == 1) target += normal_lpdf(y | eta, aux);
    else target += bernoulli_logit_lpmf(whole | eta);
  }
}
data {
  array[2] int family; int N1; int N2; int K; int bN;
  vector[N1] y1; array[N2] int<lower=0, upper=1> y2; matrix[N1, K] X1; matrix[N2, K] X2;
  vector[N1] Z1; vector[N2] Z2; array[N1] int id1; array[N2] int id2;
}
transformed data { array[0] int no_int; vector[0] no_real; }
parameters { vector[K] beta1; vector[K] beta2; real g; vector[bN] b1; vector[bN] b2; real<lower=0> aux; }
model {
  vector[N1] eta1 = evaluate(X1, Z1, id1, g, beta1, b1);
  vector[N2] eta2 = evaluate(X2, Z2, id2, g, beta2, b2);
  glm_lp(y1, no_int, eta1, aux, family[1]);
  glm_lp(no_real, y2, eta2, aux, family[2]);
  b1 ~ normal(0, 1);
  b2 ~ normal(0, 1);
  aux ~ exponential(1);
}
