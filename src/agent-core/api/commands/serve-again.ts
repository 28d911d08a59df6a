import { done, type Outcome } from './results.ts'
import type { Rooms } from './rooms.ts'

/** After the machine ended in disorder while models ran. */
export async function serveAgain({ fuse, history }: Rooms): Outcome {
  if (!(await fuse.serveAgain())) return done('No model is held back: models start as usual.')
  history.add({ kind: 'settingsChanged', message: 'Models that were held back are served again, on request.' })
  return done('Models are served again: what was held back starts now, as far as memory allows.')
}
