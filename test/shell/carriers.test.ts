import { vi } from 'vitest'
import { testCarriers } from '../support/carriers/carrier-suite.ts'
import { ipcCarrier } from '../support/carriers/ipc-carrier.ts'

vi.mock('electron', async () => ({
  ...(await import('../support/electron-stand-in/browser-window.ts')),
  ...(await import('../support/electron-stand-in/ipc-main.ts')),
}))

testCarriers([ipcCarrier])
