// data: {"N": 9, "J": 3, "s": [4, 3, 2]}
// The number is set anew for each segment, so that the segment is the row.
data { int N; int J; array[J] int s; vector[J] x; vector[N] y; }
parameters { real phi; real<lower=0> sigma; }
model {
  int pos = 1;
  real level;
  for (j in 1:J) {
    level = phi * x[j];
    level += 1;
    segment(y, pos, s[j]) ~ normal(level, sigma);
    pos += s[j];
  }
}
