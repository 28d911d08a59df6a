import { z } from 'zod'
import { app } from './app.ts'
import { chooses } from './dialog.ts'
import { approve } from './login-item.ts'
import { clickNotification, notifications } from './notification.ts'
import { startedBlockers } from './power-save-blocker.ts'
import { systemPreferences } from './system-preferences.ts'

/** What a test may do with macOS around the app. */
export const macosRequests = [
  z.object({ do: z.literal('notifications') }),
  z.object({ do: z.literal('clickNotification'), title: z.string(), button: z.string().optional() }),
  z.object({ do: z.literal('approveLoginItem'), isAllowed: z.boolean() }),
  z.object({ do: z.literal('openLink'), link: z.string() }),
  /** What the app has told macOS of itself. */
  z.object({ do: z.literal('isUserDefault'), key: z.string() }),
  /** What the app keeps the system from doing, one entry per blocker. */
  z.object({ do: z.literal('blockers') }),
  /** In the next dialog for a file; null = none. */
  z.object({ do: z.literal('chooseFile'), file: z.string().nullable() }),
  /** A process of Chromium that is no page's. */
  z.object({ do: z.literal('helperGone'), type: z.string(), reason: z.string() }),
] as const

type MacosRequest = z.output<(typeof macosRequests)[number]>

export const isMacosRequest = (request: { readonly do: string }): request is MacosRequest =>
  macosRequests.some(({ shape }) => shape.do.value === request.do)

export function carryOutOnMacos(request: MacosRequest): unknown {
  switch (request.do) {
    case 'notifications':
      return [...notifications.values()].map(({ shown }) => shown)
    case 'clickNotification':
      clickNotification(request.title, request.button)
      return undefined
    case 'approveLoginItem':
      approve(request.isAllowed)
      return undefined
    case 'openLink':
      app.openLink(request.link)
      return undefined
    case 'isUserDefault':
      return systemPreferences.getUserDefault(request.key, 'boolean')
    case 'blockers':
      return startedBlockers()
    case 'chooseFile':
      chooses(request.file)
      return undefined
    case 'helperGone':
      return void app.emit('child-process-gone', {}, { type: request.type, reason: request.reason, exitCode: 9 })
  }
}
