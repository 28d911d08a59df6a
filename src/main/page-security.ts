import { app, session } from 'electron'
import { appOrigin, appUrl } from './app-scheme.ts'

/** Pages stay where they are, loaded again at most, and get nothing of the system but the clipboard to write to, for addresses that are copied. */
export function securePages(): void {
  app.on('web-contents-created', (_event, page) => {
    page.on('will-navigate', (event) => {
      if (event.url.split('#')[0] !== appUrl) event.preventDefault()
    })
    page.on('will-redirect', (event) => event.preventDefault())
    page.on('will-attach-webview', (event) => event.preventDefault())
    page.setWindowOpenHandler(() => ({ action: 'deny' }))
  })
  const { defaultSession } = session
  defaultSession.setPermissionRequestHandler((_page, permission, allow, { requestingUrl }) =>
    allow(permission === 'clipboard-sanitized-write' && requestingUrl.startsWith(`${appOrigin}/`)),
  )
  defaultSession.setPermissionCheckHandler(
    (_page, permission, origin) =>
      permission === 'clipboard-sanitized-write' && origin.replace(/\/$/, '') === appOrigin,
  )
}
