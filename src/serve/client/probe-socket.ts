import { connect } from 'node:net'
import { hasCode } from '../../agent-core/support/files.ts'

/** Whether a process listens there; throws where that cannot be found out. */
export function probeSocket(path: string): Promise<boolean> {
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
