/** An error, what caused it, and so on. */
export function causesOf(error: unknown): Error[] {
  const chain: Error[] = []
  for (let current = error; current instanceof Error; current = current.cause) chain.push(current)
  return chain
}

/** The system's error codes (`ENOSPC`, `ECONNREFUSED`, ...) along the chain of causes. */
export const errorCodes = (error: unknown): string[] =>
  causesOf(error).flatMap((one) => ('code' in one && typeof one.code === 'string' ? [one.code] : []))

/** The first of {@link errorCodes}. */
export const errorCode = (error: unknown): string | undefined => errorCodes(error)[0]

/**
 * What a system call fails with because this process or this machine lacks something, or because a firewall or sandbox here forbids it.
 * None of it says anything about who would have been asked.
 */
const ownFailures: ReadonlyMap<string | undefined, string> = new Map([
  ['EMFILE', 'this agent has reached the limit of open files and connections for one process'],
  ['ENFILE', 'the system has reached its limit of open files and connections'],
  ['ENOBUFS', 'the system has no buffers left for a connection'],
  ['ENOMEM', 'the system has no memory left'],
  ['EAGAIN', 'the system has no resources left to start it'],
  ['EADDRNOTAVAIL', 'the system has no local port left'],
  ['EACCES', 'this machine does not allow it'],
  ['EPERM', 'this machine does not allow it'],
])

/** Why this machine could not ask, as half a sentence with the system's code; undefined where a failure may be the other side's. */
export function ownFailure(error: unknown): string | undefined {
  const code = errorCode(error)
  const why = ownFailures.get(code)
  return why === undefined ? undefined : `${why} (${code})`
}

/** Whether this process, or the system, may open no more files: what is not seen then may be there all the same. */
export const lacksFiles = (error: unknown): boolean => ['EMFILE', 'ENFILE'].includes(errorCode(error) ?? '')
