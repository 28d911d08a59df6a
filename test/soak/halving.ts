/** How often the faults are repeated, in all, to find fewer that do it: each repetition takes a minute, and timing is not deterministic. */
const longestSearch = 10

/**
 * The fewest faults found that still break something: half of them, and half of that. Where neither half does, both were needed, or the
 * moment did not come again.
 */
export async function halve<T>(
  faults: readonly T[],
  breaks: (faults: readonly T[]) => Promise<boolean>,
): Promise<readonly T[]> {
  let [found, tries] = [faults, 0]
  for (;;) {
    const middle = Math.ceil(found.length / 2)
    const halves = [found.slice(0, middle), found.slice(middle)].filter((half) => half.length > 0)
    const next = await firstThat(halves, async (half) => ++tries <= longestSearch && (await breaks(half)))
    if (next === undefined || next.length === found.length) return found
    found = next
  }
}

async function firstThat<T>(all: readonly T[], isSo: (one: T) => Promise<boolean>): Promise<T | undefined> {
  for (const one of all) if (await isSo(one)) return one
  return undefined
}
