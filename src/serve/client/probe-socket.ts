import { connect } from 'node:net'
import { requireOwnSocket } from '../../agent-core/state/socket-path.ts'
import { hasCode } from '../../agent-core/util/files.ts'

/** Whether a process of this user listens there; throws where that cannot be found out, such as StrangeSocketError. */
export async function probeSocket(path: string, stateDir: string): Promise<boolean> {
  await requireOwnSocket(path, stateDir)
  return new Promise((resolve, reject) => {
    const socket = connect(path)
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', (error) => {
      if (isNobodyThere(error)) resolve(false)
      else reject(error)
    })
  })
}

/** No file, or a file that no process listens on any more. */
export const isNobodyThere = (error: unknown) => hasCode(error, 'ENOENT') || hasCode(error, 'ECONNREFUSED')
