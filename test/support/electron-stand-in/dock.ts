/** So long after it was shown nothing hides it: Electron's way around icons that macOS would leave behind. */
const settleMs = 1_000

let isVisible = true
let shownAt = -Infinity

/** An app has an icon there unless its bundle or its policy says otherwise. */
export const dock = {
  show(): Promise<void> {
    isVisible = true
    shownAt = performance.now()
    return Promise.resolve()
  },
  hide(): void {
    if (performance.now() - shownAt >= settleMs) isVisible = false
  },
  isVisible: () => isVisible,
}

export function setActivationPolicy(policy: string): void {
  if (!['regular', 'accessory', 'prohibited'].includes(policy)) {
    throw new TypeError(`Invalid activation policy: must be one of 'regular', 'accessory', or 'prohibited'`)
  }
  isVisible = policy === 'regular'
}
