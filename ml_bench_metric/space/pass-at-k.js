// Pass@k: the counterpart of `ml_bench_metric/pass_at_k.py`, whose docstrings say where the formulas are from.
(function (mlBench) {
  "use strict";

  const RESAMPLES = 10000;
  const CONFIDENCE = 0.95;

  /** The unbiased estimate from n candidates of which c pass; NaN where k is larger than n. */
  function unbiased(n, c, k) {
    if (k > n) return NaN;
    let chance = 0;
    for (let drawn = 0; drawn < k; drawn += 1) chance += ((1 - chance) * c) / (n - drawn);
    return chance;
  }

  /** 1 where one of the first k verdicts is a pass, else 0; NaN where there are fewer than k. */
  function ordered(verdicts, k) {
    if (k > verdicts.length) return NaN;
    return verdicts.slice(0, k).includes(true) ? 1 : 0;
  }

  /** The mean; NaN where one of the values is. */
  function mean(values) {
    return values.reduce((sum, value) => sum + value, 0) / values.length;
  }

  /**
   * Return pass@k of each task of pass-at-k-input.js: 0 for one without a candidate, which is a failure for every k, and
   * NaN for another with fewer than k.
   */
  function perTask(tasks, k, estimator) {
    return tasks.map(({ n, c, verdicts }) => {
      if (!n) return 0;
      return estimator === "ordered" ? ordered(verdicts, k) : unbiased(n, c, k);
    });
  }

  /**
   * The percentile bootstrap intervals [low, high] of the means of several rows of finite values, one value per task.
   *
   * Tasks are drawn with replacement 10,000 times, as in the package; the random numbers are others than NumPy's, so
   * the ends may differ from the package's by the weight of a task. The same values in any order give the same interval.
   */
  function intervals(rows, seed = 0) {
    const sorted = rows.map((values) => Float64Array.from(values).sort());
    const means = rows.map(() => new Float64Array(RESAMPLES));
    const tasks = rows[0]?.length ?? 0;
    const random = randomNumbers(seed);
    const drawn = new Uint32Array(tasks);
    for (let resample = 0; resample < RESAMPLES; resample += 1) {
      for (let index = 0; index < tasks; index += 1) drawn[index] = Math.floor((random() / 4294967296) * tasks);
      sorted.forEach((values, row) => {
        let sum = 0;
        for (let index = 0; index < tasks; index += 1) sum += values[drawn[index]];
        means[row][resample] = sum / tasks;
      });
    }
    const tail = (1 - CONFIDENCE) / 2;
    return means.map((found) => [quantile(found.sort(), tail), quantile(found, 1 - tail)]);
  }

  /** A quantile of sorted values, between two of them on the straight line. */
  function quantile(values, share) {
    const place = (values.length - 1) * share;
    const below = values[Math.floor(place)];
    return below + (values[Math.ceil(place)] - below) * (place - Math.floor(place));
  }

  /** A generator of 32-bit numbers: xorshift128 of Marsaglia (2003), "Xorshift RNGs", section 4. */
  function randomNumbers(seed) {
    let [x, y, z, w] = [123456789 ^ seed, 362436069, 521288629, 88675123];
    const next = () => {
      const t = x ^ (x << 11);
      [x, y, z] = [y, z, w];
      w = w ^ (w >>> 19) ^ t ^ (t >>> 8);
      return w >>> 0;
    };
    for (let skipped = 0; skipped < 64; skipped += 1) next();
    return next;
  }

  mlBench.passAtK = { CONFIDENCE, RESAMPLES, unbiased, ordered, perTask, mean, intervals };
})((globalThis.mlBench ??= {}));
