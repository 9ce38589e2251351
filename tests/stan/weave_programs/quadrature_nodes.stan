// data: {"N": 12, "Q": 3, "w": "np.array([0.3, 0.5, 0.2])", "node": "np.array([0.1, 0.5, 0.9])"}
data {
  int N; int Q; vector<lower=0>[N] t; vector[Q] node; vector[Q] w;
}
parameters { vector[2] g; }
model {
  g ~ normal(0, 1);
  for (i in 1:N) {
    real H = 0;
    for (q in 1:Q) H += w[q] * exp(g[1] + g[2] * t[i] * node[q]);
    target += -t[i] * H;
  }
}
