/** Which blockers were started and not stopped, by their numbers. */
const started = new Map<number, string>()
/** The first is 0, as Electron's is. */
let next = 0

export const startedBlockers = (): string[] => [...started.values()]

const types = ['prevent-app-suspension', 'prevent-display-sleep']

export const powerSaveBlocker = {
  start(type: string): number {
    if (!types.includes(type)) {
      throw new TypeError(`Error processing argument at index 0, conversion failure from ${type}`)
    }
    started.set(next, type)
    next += 1
    return next - 1
  },
  /** Whether it was started before. */
  stop: (id: number): boolean => started.delete(id),
  isStarted: (id: number): boolean => started.has(id),
}
