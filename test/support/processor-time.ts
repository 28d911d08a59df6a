/** Milliseconds of a processor that this thread has taken so far: what else the machine does is not among them. */
export function threadMs(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1_000
}

type Work = () => unknown

async function cpuMs(work: Work): Promise<number> {
  const before = threadMs()
  await work()
  return threadMs() - before
}

/** What is not told from noise, in milliseconds: some systems count in steps of ten. */
const noiseMs = 20
const rounds = 3

/** More than any {@link growth} of what takes time as its size, even on a busy machine, and less than that of what takes it as the square of its size. */
export const growsNoFaster = 9

/**
 * How many times longer it takes at four times the size: 4 where it takes time as its size, 16 where as the square of it. The sizes take
 * turns, and of each the shortest counts.
 */
export async function growth(size: number, workOf: (size: number) => Work | Promise<Work>): Promise<number> {
  const [small, large] = [await workOf(size), await workOf(4 * size)]
  let [ofSmall, ofLarge] = [Infinity, Infinity]
  for (let round = 0; round < rounds; round += 1) {
    ofSmall = Math.min(ofSmall, await cpuMs(small))
    ofLarge = Math.min(ofLarge, await cpuMs(large))
  }
  return ofLarge / Math.max(noiseMs, ofSmall)
}

/** This thread's share of the processor time that all threads of this process take for the work; 1 where it does all of it. */
export async function shareOfThisThread(work: Work): Promise<number> {
  const before = process.cpuUsage()
  const own = await cpuMs(work)
  const { user, system } = process.cpuUsage(before)
  return (own * 1_000) / (user + system)
}
