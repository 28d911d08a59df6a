/** Which blockers were started and not stopped, by their numbers. */
const started = new Map<number, string>()
let last = 0

export const powerSaveBlocker = {
  start(type: 'prevent-app-suspension' | 'prevent-display-sleep'): number {
    started.set((last += 1), type)
    return last
  },
  /** Whether it was started before. */
  stop: (id: number): boolean => started.delete(id),
  isStarted: (id: number): boolean => started.has(id),
}
