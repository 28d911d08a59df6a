// Where the package for tests starts: with what `hook.cjs` keeps, and goes on as the released one does.
import './hook.cjs'
import '../../../out/main/main.js'
