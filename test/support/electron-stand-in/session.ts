import { EventEmitter } from 'node:events'
import { writeFileSync } from 'node:fs'
import { app } from './app.ts'
import { NetSession } from './net.ts'

type RequestHandler = (
  page: unknown,
  permission: string,
  allow: (granted: boolean) => void,
  details: { readonly requestingUrl: string },
) => void
type CheckHandler = (page: unknown, permission: string, origin: string) => boolean

const handlers: { request?: RequestHandler; check?: CheckHandler } = {}

const defaultSession = Object.assign(new EventEmitter(), {
  setPermissionRequestHandler: (handler: RequestHandler) => void (handlers.request = handler),
  setPermissionCheckHandler: (handler: CheckHandler) => void (handlers.check = handler),
})

let isDefaultMade = false

const partitions = new Map<string, NetSession>()

export const session = {
  /** In memory, as every partition whose name does not begin with `persist:`. */
  fromPartition(name: string): NetSession {
    app.mustBeReady('Session can not be received')
    const made = partitions.get(name) ?? new NetSession()
    partitions.set(name, made)
    return made
  },

  get defaultSession() {
    app.mustBeReady('Session can not be received')
    if (!isDefaultMade) {
      isDefaultMade = true
      app.emit('session-created', defaultSession)
    }
    return defaultSession
  },
}

/** As when its page offers a file: a sheet asks for the place where nobody has named one, and gets nothing of a window that hides. */
export function download(filename: string, text: string): void {
  const item = Object.assign(new EventEmitter(), {
    getFilename: () => filename,
    setSavePath: (file: string) => {
      writeFileSync(file, text)
      setImmediate(() => item.emit('done', {}, 'completed'))
    },
  })
  defaultSession.emit('will-download', {}, item)
}

/** What a page of this origin gets when it asks; as in Electron everything, where no handler says otherwise. */
export function permissionsOf(origin: string, permission: string): { asked: boolean; checked: boolean } {
  const answer = { asked: true, checked: handlers.check?.(null, permission, `${origin}/`) ?? true }
  handlers.request?.(null, permission, (granted) => (answer.asked = granted), { requestingUrl: `${origin}/index.html` })
  return answer
}
