/** Whole words of a context's name: `reproduction` and `products` are none. */
const words = new Set(['prod', 'production', 'prd', 'live'])

/** By its name alone, which is all that a kubeconfig says of a cluster: asked about once too often is better than once too seldom. */
export const looksLikeProduction = (context: string): boolean =>
  context
    .toLowerCase()
    .split(/[^a-z]+/)
    .some((word) => words.has(word))
