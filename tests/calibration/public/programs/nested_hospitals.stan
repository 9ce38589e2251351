// Readmission of patients of doctors in hospitals; logits by a partial sum over slices.
functions {
  real partial_sum_lpmf(array[] int y, int start, int end, vector age, array[] int doctor,
                        real alpha, real beta, vector effect) {
    return bernoulli_logit_lpmf(y | alpha + beta * age[start:end] + effect[doctor[start:end]]);
  }
}
data {
  int<lower=1> N;
  int<lower=1> D;
  int<lower=1> H;
  array[N] int<lower=0, upper=1> readmitted;
  vector[N] age;
  array[N] int<lower=1, upper=D> doctor;
  array[D] int<lower=1, upper=H> hospital;
  int<lower=1> grainsize;
}
parameters {
  real alpha;
  real beta;
  vector[D] z_doctor;
  vector[H] z_hospital;
  real<lower=0> s_doctor;
  real<lower=0> s_hospital;
}
transformed parameters {
  vector[D] effect = s_doctor * z_doctor + s_hospital * z_hospital[hospital];
}
model {
  alpha ~ normal(-1, 0.5);
  beta ~ normal(0, 0.5);
  z_doctor ~ std_normal();
  z_hospital ~ std_normal();
  s_doctor ~ normal(0, 0.5);
  s_hospital ~ normal(0, 0.5);
  target += reduce_sum(partial_sum_lupmf, readmitted, grainsize, age, doctor, alpha, beta, effect);
}
