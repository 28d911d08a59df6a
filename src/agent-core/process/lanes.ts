/**
 * Two servers of one service may be there at once, while one takes over from the other. Each has a lane: a working directory and an
 * output file of its own. Which of the two a server has means nothing else.
 */
export type Lane = 1 | 2

/** What a server is to its service: the one that answers for it, the next, or the last one while it finishes its requests. */
export type ServerRole = 'current' | 'successor' | 'retiring'

/** No name in Kubernetes has a tilde. */
const secondLane = '~2'

/** Names one server of a service, as long as it is there. */
export const slotOf = (key: string, lane: Lane): string => (lane === 1 ? key : `${key}${secondLane}`)

export const otherLane = (lane: Lane): Lane => (lane === 1 ? 2 : 1)

/** The name of a working directory, or of a slot, without its lane. */
export const inLane = (name: string): { readonly name: string; readonly lane: Lane } =>
  name.endsWith(secondLane) ? { name: name.slice(0, -secondLane.length), lane: 2 } : { name, lane: 1 }

/** From the files of the first lane. */
export const filesInLane = <T extends { readonly workingDirectory: string; readonly logFile: string }>(
  files: T,
  lane: Lane,
): T =>
  lane === 1
    ? files
    : { ...files, workingDirectory: files.workingDirectory + secondLane, logFile: logFileOf(files.logFile, lane) }

export const laneOfLog = (logFile: string): Lane => inLane(logFile.replace(/\.log$/, '')).lane

/** From the log file of either lane. */
export function logFileOf(logFile: string, lane: Lane): string {
  const { name } = inLane(logFile.replace(/\.log$/, ''))
  return lane === 1 ? `${name}.log` : `${name}${secondLane}.log`
}
