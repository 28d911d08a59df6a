import { answerControl } from './control.ts'
import electron, { app } from './electron.ts'

export * from './electron.ts'
export default electron

answerControl()
app.begin()
