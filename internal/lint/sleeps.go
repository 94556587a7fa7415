package lint

import "go/ast"

// Sleeps names each time.Sleep of a test file: a test that sleeps is slow where it need not be and fails where the
// machine is busy. Inside synctest.Test time is simulated, so that a sleep there takes none and is exact.
func Sleeps(f File) []string {
	if f.Go == nil || !f.Test() {
		return nil
	}
	var bad []string
	ast.Inspect(f.Go, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && selects(call.Fun, "synctest", "Test") {
			return false
		}
		if e, ok := n.(ast.Expr); ok && selects(e, "time", "Sleep") {
			bad = append(bad, f.where(n.Pos())+": time.Sleep in a test")
		}
		return true
	})
	return bad
}

func selects(e ast.Expr, pkg, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == pkg
}
