// data: {"nind": 9, "n_occasions": 4, "y": "np.where(np.arange(9)[:, None] == 8, 3, rng.integers(1, 4, (9, 4)))"}
// States of animals that enter at different times: the scratch array is filled from then on.
functions { int first_capture(array[] int y_i) { for (k in 1 : size(y_i)) if (y_i[k] != 3) return k; return 0; } }
data { int<lower=0> nind; int<lower=0> n_occasions; array[nind, n_occasions] int<lower=1, upper=3> y; }
transformed data {
  int n_occ_minus_1 = n_occasions - 1;
  array[nind] int<lower=0, upper=n_occasions> first;
  for (i in 1 : nind) first[i] = first_capture(y[i]);
}
parameters { real<lower=0, upper=1> phiA; real<lower=0, upper=1> phiB; real<lower=0, upper=1> psi; real<lower=0, upper=1> pA; real<lower=0, upper=1> pB; }
transformed parameters {
  array[3, nind, n_occ_minus_1] simplex[3] ps;
  array[3, nind, n_occ_minus_1] simplex[3] po;
  for (i in 1 : nind) {
    for (t in 1 : n_occ_minus_1) {
      ps[1, i, t, 1] = phiA * (1.0 - psi); ps[1, i, t, 2] = phiA * psi; ps[1, i, t, 3] = 1.0 - phiA;
      ps[2, i, t, 1] = phiB * psi; ps[2, i, t, 2] = phiB * (1 - psi); ps[2, i, t, 3] = 1.0 - phiB;
      ps[3, i, t, 1] = 0.0; ps[3, i, t, 2] = 0.0; ps[3, i, t, 3] = 1.0;
      po[1, i, t, 1] = pA; po[1, i, t, 2] = 0.0; po[1, i, t, 3] = 1.0 - pA;
      po[2, i, t, 1] = 0.0; po[2, i, t, 2] = pB; po[2, i, t, 3] = 1.0 - pB;
      po[3, i, t, 1] = 0.0; po[3, i, t, 2] = 0.0; po[3, i, t, 3] = 1.0;
    }
  }
}
model {
  array[3] real acc;
  array[n_occasions] vector[3] gamma;
  for (i in 1 : nind) {
    if (first[i] > 0) {
      for (k in 1 : 3) gamma[first[i], k] = (k == y[i, first[i]]);
      for (t in (first[i] + 1) : n_occasions) {
        for (k in 1 : 3) {
          for (j in 1 : 3) acc[j] = gamma[t - 1, j] * ps[j, i, t - 1, k] * po[k, i, t - 1, y[i, t]];
          gamma[t, k] = sum(acc);
        }
      }
      target += log(sum(gamma[n_occasions]));
    }
  }
}
