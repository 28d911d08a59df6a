import { buildApp } from './build-app.ts'

export default () => buildApp('renderer', 'main', 'preload')
