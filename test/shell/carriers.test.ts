import { vi } from 'vitest'
import { testCarriers } from '../support/carriers/carrier-suite.ts'
import { ipcCarrier } from '../support/carriers/ipc-carrier.ts'

vi.mock('electron', () => import('../support/electron-stand-in/electron.ts'))

testCarriers([ipcCarrier])
