import { app } from './app.ts'

type RequestHandler = (
  page: unknown,
  permission: string,
  allow: (granted: boolean) => void,
  details: { readonly requestingUrl: string },
) => void
type CheckHandler = (page: unknown, permission: string, origin: string) => boolean

const handlers: { request?: RequestHandler; check?: CheckHandler } = {}

const defaultSession = {
  setPermissionRequestHandler: (handler: RequestHandler) => void (handlers.request = handler),
  setPermissionCheckHandler: (handler: CheckHandler) => void (handlers.check = handler),
}

export const session = {
  get defaultSession() {
    app.mustBeReady('Session can not be received')
    return defaultSession
  },
}

/** What a page of this origin gets when it asks; as in Electron everything, where no handler says otherwise. */
export function permissionsOf(origin: string, permission: string): { asked: boolean; checked: boolean } {
  const answer = { asked: true, checked: handlers.check?.(null, permission, `${origin}/`) ?? true }
  handlers.request?.(null, permission, (granted) => (answer.asked = granted), { requestingUrl: `${origin}/index.html` })
  return answer
}
