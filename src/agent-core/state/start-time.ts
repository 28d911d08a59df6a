import type { Platform } from '../platform/platform.ts'

/**
 * When a process began, so that its number tells it from others; undefined where there is none. Linux counts from the boot, so that the
 * same figure may come up again after the next boot.
 */
export async function startTimeOf(platform: Platform, pid: number): Promise<string | undefined> {
  const facts = await platform.process(pid)
  return facts && `${await platform.bootId()}:${facts.startTime}`
}
