import { z } from 'zod'
import { type LookedAt, type WindowView, windowViews } from '../../contract/app-bridge.ts'
import type { Unsubscribe } from '../../contract/client.ts'
import { serviceRef } from '../../contract/commands.ts'
import type { AgentSnapshot } from '../../contract/snapshot.ts'
import { type AgentViewStore, onceKnown } from '../agent/agent-view.ts'

export interface TargetWindow {
  show(at: WindowPlace | undefined): void
  /** Turns the window to a place, if it still exists. */
  turn(at: WindowPlace): void
}

/** An agent that starts has read the cluster by then; later nobody waits for a window to turn. */
const waitMs = 60_000

/** Shows the window at once, and turns it to a service as soon as the agent knows it. The newest target is the one that counts. */
export function targetShower(view: AgentViewStore, window: TargetWindow): (target: LinkTarget) => void {
  let withdraw: Unsubscribe = () => undefined
  let limit: NodeJS.Timeout | undefined
  return (target) => {
    clearTimeout(limit)
    withdraw()
    const place = placeOf(target, view.getState().snapshot)
    window.show(place)
    if (place !== undefined || target.kind !== 'service') return
    withdraw = onceKnown(
      view,
      ({ snapshot }) => placeOf(target, snapshot),
      (known) => {
        clearTimeout(limit)
        window.turn(known)
      },
    )
    limit = setTimeout(withdraw, waitMs)
  }
}

/** What the window is to show; of the settings also one of their fields. */
export type WindowPlace = LookedAt | { readonly view: 'settings'; readonly field: 'hostAddress' | 'updates' }

/** As the page reads it in its address. */
export function fragmentOf(at: WindowPlace | undefined): string {
  if (!at) return ''
  if ('service' in at) return `#service/${encodeURIComponent(at.service)}`
  return 'field' in at ? `#${at.view}/${at.field}` : `#${at.view}`
}

export const linkScheme = 'metalbar'

/** What a link asks to be shown. Whoever writes a page or a mail may write one, so it only ever turns the window. */
export type LinkTarget =
  | { readonly kind: 'window' }
  | { readonly kind: 'view'; readonly view: WindowView }
  | { readonly kind: 'service'; readonly namespace: string; readonly name: string }

const maxLength = 500

/** `metalbar://open`, `metalbar://settings`, `metalbar://service/NAMESPACE/NAME`; undefined for all else, however little it differs. */
export function targetOf(link: string): LinkTarget | undefined {
  if (link.length > maxLength || !link.startsWith(`${linkScheme}://`)) return undefined
  const [place = '', ...rest] = link.slice(`${linkScheme}://`.length).replace(/\/$/, '').split('/')
  if (place === 'service' && rest.length === 2) {
    const [namespace, name] = rest
    const service = serviceRef.safeParse({ namespace, name })
    return service.success ? { kind: 'service', ...service.data } : undefined
  }
  if (rest.length > 0) return undefined
  if (place === 'open') return { kind: 'window' }
  const view = z.enum(windowViews).safeParse(place)
  return view.success ? { kind: 'view', view: view.data } : undefined
}

/** Where in the window that is; undefined = the window as it is, also for a service that is not there. */
export function placeOf(target: LinkTarget, snapshot: AgentSnapshot | undefined): WindowPlace | undefined {
  if (target.kind === 'window') return undefined
  if (target.kind === 'view') return { view: target.view }
  const { namespace, name } = target
  const service = snapshot?.services.find((one) => one.namespace === namespace && one.name === name)
  return service && { service: service.uid }
}
