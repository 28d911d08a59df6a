import { z } from 'zod'
import { app } from './app.ts'
import { focusedWindow } from './windows.ts'
import type { Tray } from './tray.ts'

/** What a person does with the mouse, and when the window hears of it. */
export const iconClick = z.object({
  /** The window loses the keys before the button is down, while it is, or after the click. */
  blur: z.enum(['before', 'during', 'after', 'never']).default('before'),
  gapMs: z.number().default(0),
  /** The button stays down. */
  holdMs: z.number().default(0),
  isDouble: z.boolean().default(false),
  ctrlKey: z.boolean().default(false),
  /** Of the icon, as the click says it; empty as where macOS does not know. */
  bounds: z.enum(['real', 'empty']).default('real'),
})

export async function clickIcon(
  tray: Tray,
  { blur, gapMs, holdMs, isDouble, ctrlKey, bounds }: z.output<typeof iconClick>,
): Promise<void> {
  const real = tray.getBounds()
  const at = bounds === 'real' ? real : { x: 0, y: 0, width: 0, height: 0 }
  const lose = () => focusedWindow()?.loseFocus()
  if (blur === 'before') {
    lose()
    await delay(gapMs)
  }
  for (const count of isDouble ? ([1, 2] as const) : ([1] as const)) {
    tray.emit('mouse-down', { ctrlKey }, { x: real.x, y: real.y })
    if (blur === 'during') {
      await delay(gapMs)
      lose()
    }
    await delay(holdMs)
    tray.released(count, { ctrlKey }, at)
  }
  if (blur === 'after') {
    await delay(gapMs)
    lose()
  }
}

/** On the desktop, or into a window of another app. */
export function clickElsewhere(): void {
  focusedWindow()?.loseFocus()
  app.resigned()
}

export function refuseFocus(): void {
  app.mayFocus = false
}

const delay = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))
