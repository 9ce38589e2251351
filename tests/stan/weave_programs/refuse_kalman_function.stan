// refuse: \d+ .
functions { real kalman(vector y, real q) { real m = 0; real lp = 0; for (t in 1:num_elements(y)) { lp += normal_lpdf(y[t] | m, 1); m = m + q * (y[t] - m); } return lp; } }
data { int T; vector[T] y; }
parameters { real<lower=0> q; }
model { target += kalman(y, q); }
